-- nothing yet
;
